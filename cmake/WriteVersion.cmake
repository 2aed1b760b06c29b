# Run at every build: writes OUT with the version and the commit, only when they changed.
execute_process(COMMAND git -C "${SOURCE_DIR}" describe --always --dirty --abbrev=10 --exclude=*
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR commit STREQUAL "")
  set(commit "unknown")
endif()
file(WRITE "${OUT}.new" "#pragma once
#define TANDEM_VERSION \"${VERSION}\"
#define TANDEM_COMMIT \"${commit}\"
#define TANDEM_BUILD_TYPE \"${BUILD_TYPE}\"
")
execute_process(COMMAND ${CMAKE_COMMAND} -E copy_if_different "${OUT}.new" "${OUT}")
file(REMOVE "${OUT}.new")
