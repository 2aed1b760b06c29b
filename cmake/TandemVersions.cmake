# Checks the versions of the libraries that were found. All misfits are reported together, each with
# the version found, the version needed and the package that has it. Uses nothing but its arguments,
# so that a test can include it alone.

if(POLICY CMP0174)
  cmake_policy(SET CMP0174 NEW)  # a keyword may be followed by an empty string
endif()

# tandem_needs(NAME FOUND yes VERSION version FROM oldest [BELOW first] PACKAGE package)
# Notes the problem of NAME for tandem_needs_met: missing (FOUND is false), older than FROM, or
# BELOW or newer. FROM is the oldest version that is built and tested (Debian 12 has it); BELOW is
# the first that may break its interface by its own rules. An empty VERSION passes, because some
# libraries do not state theirs.
function(tandem_needs name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "FOUND;VERSION;FROM;BELOW;PACKAGE" "")
  set(needed "needed is ${ARG_FROM} or newer")
  if(ARG_BELOW)
    string(APPEND needed ", below ${ARG_BELOW}")
  endif()
  if(NOT ARG_FOUND)
    set(wrong "${name} is missing: ${needed} (${ARG_PACKAGE})")
  elseif(NOT ARG_VERSION)
    return()
  elseif(ARG_VERSION VERSION_LESS ARG_FROM)
    set(wrong "${name} ${ARG_VERSION} is too old: ${needed} (${ARG_PACKAGE})")
  elseif(ARG_BELOW AND ARG_VERSION VERSION_GREATER_EQUAL ARG_BELOW)
    set(wrong "${name} ${ARG_VERSION} is too new: ${needed} (${ARG_PACKAGE})")
  else()
    return()
  endif()
  set_property(GLOBAL APPEND PROPERTY TANDEM_WRONG "${wrong}")
  if(NOT ARG_FOUND)
    set_property(GLOBAL PROPERTY TANDEM_MISSING ON)
  endif()
endfunction()

# Ends the configuration if anything noted does not fit. TANDEM_ANY_VERSION: versions only give
# warnings.
function(tandem_needs_met)
  get_property(wrong GLOBAL PROPERTY TANDEM_WRONG)
  get_property(missing GLOBAL PROPERTY TANDEM_MISSING)
  if(NOT wrong)
    return()
  endif()
  list(JOIN wrong "\n  " lines)
  if(TANDEM_ANY_VERSION AND NOT missing)
    message(WARNING "Tried all the same, by TANDEM_ANY_VERSION:\n  ${lines}")
    return()
  endif()
  message(FATAL_ERROR "Not what Tandem is built with:\n  ${lines}\n"
    "tools/install-deps installs the packages in brackets; those of Debian 12, Debian 13 and Ubuntu 24.04 fit. "
    "Where another version was found first, let CMAKE_PREFIX_PATH name the folder of one that fits, in a "
    "fresh build folder. -DTANDEM_ANY_VERSION=ON tries versions that do not.")
endfunction()
