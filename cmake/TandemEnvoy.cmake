# `tandem pick` speaks Envoy's external processing over gRPC; both are optional. If the packages
# (tools/install-deps --picker) and the protocol's descriptors (tools/install-headers ext-proc)
# exist, protoc generates the sources, once for all build folders, and TANDEM_HAVE_PICKER is set.
set(TANDEM_PICKER AUTO CACHE STRING "tandem pick: AUTO (where gRPC is), ON or OFF")
set(TANDEM_HAVE_PICKER OFF)
set(ext_proc "${PROJECT_SOURCE_DIR}/.deps/ext-proc-1.85.0")

if(TANDEM_SANITIZE STREQUAL "thread")
  # gRPC is not instrumented and its locks (Abseil's) are invisible to the thread sanitizer, which
  # would report false races. The picker's decisions are in scheduler/cluster/picker, which is
  # tested here, too.
  set(TANDEM_NO_PICKER "not under this sanitizer")
elseif(TANDEM_PICKER STREQUAL "OFF")
  set(TANDEM_NO_PICKER "TANDEM_PICKER is OFF")
else()
  set(TANDEM_NO_PICKER "")
  pkg_check_modules(GRPCPP QUIET IMPORTED_TARGET grpc++>=1.51 protobuf>=3.21)
  find_program(TANDEM_PROTOC protoc)
  find_program(TANDEM_GRPC_PLUGIN grpc_cpp_plugin)
  find_path(TANDEM_PROTO_INCLUDE google/protobuf/any.proto)
  if(NOT GRPCPP_FOUND OR NOT TANDEM_PROTOC OR NOT TANDEM_GRPC_PLUGIN OR NOT TANDEM_PROTO_INCLUDE)
    set(TANDEM_NO_PICKER "libgrpc++-dev, libprotobuf-dev, protobuf-compiler or protobuf-compiler-grpc is missing: \
tools/install-deps --picker")
  elseif(NOT EXISTS "${ext_proc}/sha256")
    set(TANDEM_NO_PICKER "Envoy's protocol is not in ${ext_proc}: tools/install-headers ext-proc (2 MB from PyPI)")
  endif()
  if(TANDEM_NO_PICKER AND TANDEM_PICKER STREQUAL "ON")
    message(FATAL_ERROR "TANDEM_PICKER is ON, and ${TANDEM_NO_PICKER}")
  endif()
endif()
if(TANDEM_NO_PICKER)
  message(STATUS "tandem pick: none (${TANDEM_NO_PICKER})")
  return()
endif()

file(STRINGS "${ext_proc}/files.txt" ext_proc_files)
# The sources are generated beside the descriptors, not in the build folder, so that the compiler
# cache finds them from every preset and clone.
set(TANDEM_EXT_PROC "${ext_proc}/cpp-${GRPCPP_grpc++_VERSION}-${GRPCPP_protobuf_VERSION}")
file(LOCK "${ext_proc}/lock" GUARD FILE TIMEOUT 120)
if(NOT EXISTS "${TANDEM_EXT_PROC}/done")
  file(MAKE_DIRECTORY "${TANDEM_EXT_PROC}")
  set(known "")
  foreach(name any duration struct timestamp wrappers)
    list(APPEND known "${TANDEM_PROTO_INCLUDE}/google/protobuf/${name}.proto")
  endforeach()
  set(known_set "${TANDEM_EXT_PROC}/google.binpb")
  execute_process(COMMAND "${TANDEM_PROTOC}" --include_imports -o "${known_set}" -I "${TANDEM_PROTO_INCLUDE}" ${known}
                  COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${TANDEM_PROTOC}" "--descriptor_set_in=${known_set}:${ext_proc}/ext_proc.binpb"
                          "--cpp_out=${TANDEM_EXT_PROC}" ${ext_proc_files}
                  COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${TANDEM_PROTOC}" "--descriptor_set_in=${known_set}:${ext_proc}/ext_proc.binpb"
                          "--grpc_out=${TANDEM_EXT_PROC}" "--plugin=protoc-gen-grpc=${TANDEM_GRPC_PLUGIN}"
                          envoy/service/ext_proc/v3/external_processor.proto
                  COMMAND_ERROR_IS_FATAL ANY)
  # The generated files are joined to two sources of similar length, so that their headers are
  # compiled twice, not thirteen times. Two tables have the same name in each file and need distinct
  # ones.
  set(service "envoy/service/ext_proc/v3/external_processor")
  set(joined "")
  set(number 0)
  foreach(name ${ext_proc_files})
    string(REGEX REPLACE "\\.proto$" "" name "${name}")
    math(EXPR number "${number} + 1")
    if(NOT name STREQUAL service)
      string(APPEND joined "#define file_default_instances file_default_instances_${number}\n"
                           "#define schemas schemas_${number}\n"
                           "#include \"${name}.pb.cc\"\n"
                           "#undef file_default_instances\n#undef schemas\n")
    endif()
  endforeach()
  file(WRITE "${TANDEM_EXT_PROC}/messages.cc" "${joined}")
  file(WRITE "${TANDEM_EXT_PROC}/service.cc" "#include \"${service}.pb.cc\"\n#include \"${service}.grpc.pb.cc\"\n")
  file(WRITE "${TANDEM_EXT_PROC}/done" "")
endif()
set(TANDEM_HAVE_PICKER ON)
message(STATUS "tandem pick: gRPC ${GRPCPP_grpc++_VERSION}, protobuf ${GRPCPP_protobuf_VERSION}")
