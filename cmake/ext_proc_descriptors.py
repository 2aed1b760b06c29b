#!/usr/bin/env python3
"""Takes the protocol of Envoy's external processing out of the wheel of xds-protos.

  ext_proc_descriptors.py WHEEL FOLDER

The wheel has no .proto files, but their descriptors, in modules that nobody runs here. Into FOLDER go
ext_proc.binpb (a google.protobuf.FileDescriptorSet, which protoc reads) and files.txt (their names):
external_processor.proto and what it needs. Options that are Envoy's own (rules of validation,
annotations of versions) are left out with the files that declare them: they change no byte on the
wire, and are half of what would be compiled.
"""

import ast
import pathlib
import re
import sys
import zipfile

ROOT = "envoy/service/ext_proc/v3/external_processor.proto"
ANNOTATIONS = ("validate/", "udpa/annotations/", "xds/annotations/", "envoy/annotations/")
SERIALIZED = re.compile(r"AddSerializedFile\((b'(?:\\.|[^'\\])*'|b\"(?:\\.|[^\"\\])*\")\)")
FIRST_EXTENSION = 1000  # of options: numbers from here on belong to extensions

# The message fields of google.protobuf's descriptors: {number: kind}, and "options".
KINDS = {
    "file": {4: "message", 5: "enum", 6: "service", 7: "field", 8: "options"},
    "message": {2: "field", 3: "message", 4: "enum", 6: "field", 7: "options", 8: "oneof"},
    "field": {8: "options"},
    "oneof": {2: "options"},
    "enum": {2: "value", 3: "options"},
    "value": {3: "options"},
    "service": {2: "method", 3: "options"},
    "method": {4: "options"},
}
DEPENDENCY = 3  # field number in a file's descriptor


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def as_varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def fields(data):
    """Number, wire type, value and the bytes of each field."""
    at = 0
    while at < len(data):
        start = at
        key, at = varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(wire)
            if size is None:
                size, at = varint(data, at)
            value = data[at:at + size]
            at += size
        yield number, wire, value, data[start:at]


def pruned(data, kind):
    out = b""
    for number, wire, value, whole in fields(data):
        if kind == "options":
            if number < FIRST_EXTENSION:
                out += whole
        elif kind == "file" and number == DEPENDENCY and value.decode().startswith(ANNOTATIONS):
            continue
        elif number in KINDS[kind] and wire == 2:
            inner = pruned(value, KINDS[kind][number])
            out += as_varint(number << 3 | 2) + as_varint(len(inner)) + inner
        else:
            out += whole
    return out


def main():
    wheel = zipfile.ZipFile(sys.argv[1])
    folder = pathlib.Path(sys.argv[2])
    files = {}

    def take(name):
        if name in files or name.startswith("google/protobuf/"):
            return
        module = wheel.read(name[:-len(".proto")] + "_pb2.py").decode()
        data = pruned(ast.literal_eval(SERIALIZED.search(module).group(1)), "file")
        files[name] = None  # it is placed after the files that it needs
        for number, _, value, _ in fields(data):
            if number == DEPENDENCY:
                take(value.decode())
        del files[name]
        files[name] = data

    take(ROOT)
    (folder / "ext_proc.binpb").write_bytes(
        b"".join(b"\x0a" + as_varint(len(data)) + data for data in files.values()))
    (folder / "files.txt").write_text("".join(name + "\n" for name in files))


main()
