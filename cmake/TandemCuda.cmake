# Decides whether the CUDA device is built (TANDEM_HAVE_CUDA), and for which GPUs. TANDEM_HAVE_GPU:
# this machine has a GPU, so ctest can run the tests that need one. TANDEM_CUDA_HOPPER: compute
# capability 9.0 is among the targets, so code for sm_90a, which runs on nothing else, is built as
# well.
find_program(TANDEM_NVCC nvcc PATHS /usr/local/cuda/bin)
set(TANDEM_CUDA_ARCHITECTURES "$ENV{TANDEM_CUDA_ARCHITECTURES}" CACHE STRING
    "GPUs to compile for, as CMAKE_CUDA_ARCHITECTURES, such as 90; empty: this machine's")
set(TANDEM_HAVE_CUDA OFF)
set(TANDEM_HAVE_GPU OFF)
if(TANDEM_NVCC AND NOT TANDEM_CUDA STREQUAL "OFF")
  execute_process(COMMAND nvidia-smi -L RESULT_VARIABLE no_gpu OUTPUT_QUIET ERROR_QUIET)
endif()
if(TANDEM_CUDA STREQUAL "OFF")
  message(STATUS "CUDA: off by TANDEM_CUDA=OFF")
elseif(NOT TANDEM_NVCC)
  if(TANDEM_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TANDEM_CUDA=ON, but there is no nvcc on PATH or in /usr/local/cuda/bin")
  endif()
  message(STATUS "CUDA: left out, there is no nvcc on PATH or in /usr/local/cuda/bin; the host device is built")
elseif(no_gpu AND TANDEM_CUDA STREQUAL "AUTO" AND TANDEM_CUDA_ARCHITECTURES STREQUAL "")
  # Kernels take many minutes to compile per architecture, and this machine could not run them.
  message(STATUS "CUDA: left out, this machine has no GPU; the host device is built. To build for another "
                 "machine's, name it: TANDEM_CUDA_ARCHITECTURES=90 in the environment (H100, H200)")
else()
  set(TANDEM_HAVE_CUDA ON)
  if(NOT no_gpu)
    set(TANDEM_HAVE_GPU ON)
  endif()
endif()

if(TANDEM_HAVE_CUDA)
  if(NOT TANDEM_CUDA_ARCHITECTURES STREQUAL "")
    set(CMAKE_CUDA_ARCHITECTURES ${TANDEM_CUDA_ARCHITECTURES})
  elseif(TANDEM_HAVE_GPU)
    set(CMAKE_CUDA_ARCHITECTURES native)
  else()
    message(FATAL_ERROR "TANDEM_CUDA=ON, but this machine has no GPU to compile for. "
                        "Name the GPUs: TANDEM_CUDA_ARCHITECTURES=90 in the environment (H100, H200)")
  endif()
  set(CMAKE_CUDA_COMPILER ${TANDEM_NVCC})
  enable_language(CUDA)
  # CMake's default "-isystem=" is unknown to the compiler cache, so that clones would share
  # nothing.
  set(CMAKE_INCLUDE_SYSTEM_FLAG_CUDA "-isystem ")
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has it
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)  # as CUDA::cudart: one runtime in a program, not two
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  if(TANDEM_CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${TANDEM_CCACHE})
  endif()
  find_package(CUDAToolkit REQUIRED)
  # Under nvcc fmt 9 omits constexpr in only some of its functions, which then do not compile.
  target_compile_definitions(tandem_options INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:FMT_USE_CONSTEXPR=1>)
  set(architectures ${CMAKE_CUDA_ARCHITECTURES})
  if(architectures STREQUAL "native")
    set(architectures ${CMAKE_CUDA_ARCHITECTURES_NATIVE})
  endif()
  set(TANDEM_CUDA_HOPPER OFF)
  if(architectures MATCHES "(^|;)(90a?(-real|-virtual)?|all|all-major)(;|$)")
    set(TANDEM_CUDA_HOPPER ON)
  endif()
  target_compile_options(tandem_options INTERFACE
    $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings -Xcompiler=-Wall,-Wextra,-Werror>)
  message(STATUS "CUDA: on, ${TANDEM_NVCC} ${CUDAToolkit_VERSION}, architectures ${CMAKE_CUDA_ARCHITECTURES}")
endif()
