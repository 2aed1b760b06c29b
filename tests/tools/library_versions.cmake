# Checks configure's messages about unsuitable libraries: `cmake -P` runs this file, which runs
# itself for each case (a refusal ends the script) and compares the output.
include("${CMAKE_CURRENT_LIST_DIR}/../../cmake/TandemVersions.cmake")

if(DEFINED CASE)
  if(CASE STREQUAL "fits")
    tandem_needs(oneDNN FOUND ON VERSION 2.6 FROM 2.6 BELOW 4 PACKAGE libdnnl-dev)
    tandem_needs(oneDNN FOUND ON VERSION 3.99.1 FROM 2.6 BELOW 4 PACKAGE libdnnl-dev)
    tandem_needs(OpenSSL FOUND TRUE VERSION 30.1 FROM 3.0 PACKAGE libssl-dev)
    tandem_needs(untold FOUND 1 VERSION "" FROM 1.0 BELOW "" PACKAGE libuntold-dev)
  elseif(CASE STREQUAL "bounds")
    tandem_needs(oneDNN FOUND ON VERSION 4.0.0 FROM 2.6 BELOW 4 PACKAGE libdnnl-dev)
    tandem_needs(Boost FOUND ON VERSION 1.71.0 FROM 1.74 BELOW 2 PACKAGE libboost-dev)
    tandem_needs(hwy FOUND ON VERSION 1.0.3 FROM 1.0 BELOW 2 PACKAGE libhwy-dev)
  elseif(CASE STREQUAL "missing")
    tandem_needs(fmt FOUND "" VERSION "" FROM 9.1 BELOW 11 PACKAGE libfmt-dev)
    tandem_needs(hwloc FOUND 0 VERSION "" FROM 2.9 BELOW 3 PACKAGE libhwloc-dev)
  endif()
  tandem_needs_met()
  message(NOTICE "goes on")
  return()
endif()

# expect(CASE passes|ends [DEFINE ...] TEXT text ... NEVER text ...)
function(expect case how)
  cmake_parse_arguments(ARG "" "DEFINE" "TEXT;NEVER" ${ARGN})
  execute_process(COMMAND "${CMAKE_COMMAND}" -DCASE=${case} ${ARG_DEFINE} -P "${CMAKE_CURRENT_FUNCTION_LIST_FILE}"
    RESULT_VARIABLE status OUTPUT_VARIABLE printed ERROR_VARIABLE printed)
  string(REGEX REPLACE "[ \n]+" " " printed "${printed}")  # messages are wrapped
  if((how STREQUAL "passes") STREQUAL (status STREQUAL "0"))
  else()
    message(SEND_ERROR "'${case}' ${ARG_DEFINE}: expected that it ${how}, status ${status}:\n${printed}")
  endif()
  foreach(text ${ARG_TEXT})
    string(FIND "${printed}" "${text}" at)
    if(at EQUAL -1)
      message(SEND_ERROR "'${case}' ${ARG_DEFINE}: does not say '${text}':\n${printed}")
    endif()
  endforeach()
  foreach(text ${ARG_NEVER})
    string(FIND "${printed}" "${text}" at)
    if(NOT at EQUAL -1)
      message(SEND_ERROR "'${case}' ${ARG_DEFINE}: says '${text}':\n${printed}")
    endif()
  endforeach()
endfunction()

expect(fits passes TEXT "goes on" NEVER "too old" "too new" "missing")
expect(bounds ends
  TEXT "oneDNN 4.0.0 is too new: needed is 2.6 or newer, below 4 (libdnnl-dev)"
       "Boost 1.71.0 is too old: needed is 1.74 or newer, below 2 (libboost-dev)"
       "tools/install-deps" "-DTANDEM_ANY_VERSION=ON"
  NEVER "hwy" "goes on")
expect(bounds passes DEFINE -DTANDEM_ANY_VERSION=ON
  TEXT "oneDNN 4.0.0 is too new" "Boost 1.71.0 is too old" "goes on")
expect(missing ends
  TEXT "fmt is missing: needed is 9.1 or newer, below 11 (libfmt-dev)" "hwloc is missing" NEVER "goes on")
expect(missing ends DEFINE -DTANDEM_ANY_VERSION=ON TEXT "fmt is missing" NEVER "goes on")
