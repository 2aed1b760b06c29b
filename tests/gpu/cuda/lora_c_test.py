"""libtandem_lora.so from Python, by ctypes over PyTorch's device memory: example and test.

    python3 lora_c_test.py path/to/libtandem_lora.so
"""

import ctypes
import sys

import torch

i32, i64, u64, ptr = ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64, ctypes.c_void_p
TYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}


class Module(ctypes.Structure):
    _fields_ = [("out", ptr), ("out_stride", i64), ("out_width", i32), ("reserved", i32),
                ("a", ptr), ("b", ptr)]


class Args(ctypes.Structure):
    _fields_ = [("struct_size", u64), ("x", ptr), ("x_stride", i64), ("in_", i32), ("type", i32),
                ("out_type", i32), ("num_modules", i32), ("module", Module * 3), ("table", ptr),
                ("table_stride", i64), ("page_base", ptr), ("page_ids", ptr),
                ("page_ids_stride", i64), ("page_shift", i32), ("dense_rank", i32),
                ("ranks", ptr), ("adapter_of_row", ptr), ("segments", ptr), ("rows", ptr),
                ("num_segments", i32), ("num_rows", i32), ("max_rank", i32), ("max_count", i32)]


library = ctypes.CDLL(sys.argv[1])
library.tandem_lora.argtypes = [ctypes.POINTER(Args), ptr]
library.tandem_lora_error.argtypes = [ctypes.c_int]
library.tandem_lora_error.restype = ctypes.c_char_p


def call(args):
    status = library.tandem_lora(ctypes.byref(args), torch.cuda.current_stream().cuda_stream)
    if status != 0:
        raise RuntimeError(library.tandem_lora_error(status).decode())
    torch.cuda.synchronize()


def arguments(x, outs):
    args = Args(struct_size=ctypes.sizeof(Args), x=x.data_ptr(), x_stride=x.stride(0),
                in_=x.shape[1], type=TYPES[x.dtype], out_type=TYPES[outs[0].dtype],
                num_modules=len(outs), num_rows=x.shape[0])
    for module, out in zip(args.module, outs):
        module.out, module.out_stride, module.out_width = out.data_ptr(), out.stride(0), out.shape[1]
    return args


def integers(values):
    return torch.tensor(values, dtype=torch.int32, device="cuda")


def expect(out, want, what):
    error = (out.double() - want).norm() / want.norm()
    assert error < {torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 5e-3}[out.dtype], (
        f"{what}: relative error {error:.2e}")
    print(f"{what}: ok, relative error {error:.1e}")


def dense(dtype, out_dtype, rank, by_row):
    """[adapters, rank, in] and [adapters, out, rank], an adapter per row or segments of rows."""
    adapters, rows, width, outs = 5, 23, 512, [256, 64]
    x = torch.randn(rows, width, device="cuda", dtype=dtype)
    a = [torch.randn(adapters, rank, width, device="cuda", dtype=dtype) / width**0.5 for _ in outs]
    b = [torch.randn(adapters, n, rank, device="cuda", dtype=dtype) / rank**0.5 for n in outs]
    y = [torch.randn(rows, n, device="cuda", dtype=out_dtype) for n in outs]
    ranks = [rank, max(1, rank // 2), 0, rank, 1]
    owner = torch.randint(-1, adapters, (rows,)).tolist()
    want = [out.double() for out in y]
    for row, adapter in enumerate(owner):
        if adapter < 0:
            continue
        r = ranks[adapter]
        for m in range(len(outs)):
            v = a[m][adapter, :r].double() @ x[row].double()
            want[m][row] += b[m][adapter, :, :r].double() @ v
    args = arguments(x, y)
    args.dense_rank = rank
    for module, am, bm in zip(args.module, a, b):
        module.a, module.b = am.data_ptr(), bm.data_ptr()
    keep = [integers(ranks)]
    args.ranks = keep[0].data_ptr()
    if by_row:
        keep.append(integers(owner))
        args.adapter_of_row = keep[1].data_ptr()
    else:
        order = sorted(range(rows), key=lambda row: owner[row])
        segments, first = [], 0
        for adapter in range(-1, adapters):
            count = owner.count(adapter)
            if adapter >= 0:
                segments.append([adapter, first, count])
            first += count
        keep += [integers(segments), integers(order)]
        args.segments, args.rows = keep[1].data_ptr(), keep[2].data_ptr()
        args.num_segments = len(segments)
        args.max_count = max(count for _, _, count in segments)
    call(args)
    for out, reference in zip(y, want):
        expect(out, reference, f"dense {dtype} into {out_dtype}, rank {rank}, "
                               f"{'by row' if by_row else 'segments'}, {out.shape[1]} wide")


def paged(dtype):
    """Two adapters cut into chunks of 4 KiB that lie anywhere in a pool."""
    rows, width, outs, ranks, shift = 6, 256, 128, [16, 72], 12
    chunk = 1 << shift
    x = torch.randn(rows, width, device="cuda", dtype=dtype)
    y = torch.randn(rows, outs, device="cuda", dtype=dtype)
    want = y.double()
    pool = torch.zeros(64 * chunk, device="cuda", dtype=torch.uint8)
    places = torch.randperm(64).tolist()
    ids, table = torch.full((2, 32), -1, dtype=torch.int32), []
    for adapter, rank in enumerate(ranks):
        a = torch.randn(rank, width, device="cuda", dtype=dtype) / width**0.5
        b = torch.randn(outs, rank, device="cuda", dtype=dtype) / rank**0.5
        for row in range(adapter, rows, 2):
            want[row] += b.double() @ (a.double() @ x[row].double())
        data = torch.cat([a.view(torch.uint8).flatten(), b.view(torch.uint8).flatten()])
        table.append((0, a.numel() * a.element_size(), rank, rank))
        for index, piece in enumerate(data.split(chunk)):
            ids[adapter, index] = place = places.pop()
            pool[place * chunk:place * chunk + piece.numel()] = piece
    words = []
    for a, b, rank, stride in table:
        words += [a, b, rank | stride << 32]
    keep = [torch.tensor(words, dtype=torch.int64, device="cuda"), ids.cuda(),
            integers([row % 2 for row in range(rows)])]
    args = arguments(x, [y])
    args.table, args.table_stride, args.max_rank = keep[0].data_ptr(), 1, max(ranks)
    args.page_base, args.page_ids = pool.data_ptr(), keep[1].data_ptr()
    args.page_ids_stride, args.page_shift = 32, shift
    args.adapter_of_row = keep[2].data_ptr()
    call(args)
    expect(y, want, f"paged {dtype}")


def refusals():
    x = torch.zeros(1, 8, device="cuda")
    args = arguments(x, [x])
    args.struct_size = 8
    try:
        call(args)
    except RuntimeError as error:
        assert "struct_size" in str(error)
    else:
        raise AssertionError("a wrong struct_size was accepted")
    print("refusals: ok")


torch.manual_seed(20261120)
for kind in TYPES:
    for r in (8, 20, 64, 512):
        for way in (True, False):
            dense(kind, kind, r, way)
    dense(kind, torch.float32, 16, True)
    paged(kind)
refusals()
