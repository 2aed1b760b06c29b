# Files of an installation besides the programs, and the Debian package that CPack makes of it
# (tools/package deb). The component "system" is for the whole machine: unit, user, settings. Only
# the package installs it; other prefixes never get it.
install(DIRECTORY packaging/prometheus packaging/grafana DESTINATION "${CMAKE_INSTALL_DATADIR}/tandem")
set(third_party "${CMAKE_INSTALL_DOCDIR}/third-party")
set(xgrammar "${PROJECT_SOURCE_DIR}/.deps/xgrammar-0.2.8")
install(FILES "${xgrammar}/LICENSE" "${xgrammar}/NOTICE" DESTINATION "${third_party}/xgrammar")
install(FILES "${xgrammar}/3rdparty/dlpack/LICENSE" DESTINATION "${third_party}/dlpack")
# The licence is the comment at the beginning of the header.
file(STRINGS "${xgrammar}/3rdparty/picojson/picojson.h" picojson LIMIT_COUNT 27)
list(JOIN picojson "\n" picojson)
file(WRITE "${PROJECT_BINARY_DIR}/third-party/picojson/LICENSE" "${picojson}\n")
install(DIRECTORY "${PROJECT_BINARY_DIR}/third-party/picojson" DESTINATION "${third_party}")
if(TANDEM_HAVE_CUDA)
  set(flashinfer "${PROJECT_SOURCE_DIR}/.deps/flashinfer-0.6.7")
  install(FILES "${flashinfer}/LICENSE" DESTINATION "${third_party}/flashinfer")
  # The licence is at the beginning of the header, as with picojson.
  file(STRINGS "${flashinfer}/cutlass/cutlass/cutlass.h" cutlass LIMIT_COUNT 30)
  list(JOIN cutlass "\n" cutlass)
  file(WRITE "${PROJECT_BINARY_DIR}/third-party/cutlass/LICENSE" "${cutlass}\n")
  install(DIRECTORY "${PROJECT_BINARY_DIR}/third-party/cutlass" DESTINATION "${third_party}")
endif()

set(system COMPONENT system EXCLUDE_FROM_ALL)
install(FILES packaging/systemd/tandem.service packaging/systemd/tandem-route.service DESTINATION /usr/lib/systemd/system ${system})
install(FILES packaging/systemd/tandem.sysusers DESTINATION /usr/lib/sysusers.d RENAME tandem.conf ${system})
install(FILES packaging/tandem.toml packaging/route.toml DESTINATION /etc/tandem ${system})
install(FILES packaging/debian/copyright DESTINATION "${CMAKE_INSTALL_DOCDIR}" ${system})

cmake_host_system_information(RESULT release QUERY DISTRIB_ID)
cmake_host_system_information(RESULT release_number QUERY DISTRIB_VERSION_ID)
set(TANDEM_PACKAGE_MAINTAINER "The Tandem developers <tandem@localhost>" CACHE STRING "Whom the package names")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tandem)
set(CPACK_INSTALL_CMAKE_PROJECTS "${PROJECT_BINARY_DIR};tandem;ALL;/;${PROJECT_BINARY_DIR};tandem;system;/")
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS "${PROJECT_SOURCE_DIR}/cmake/PackageTree.cmake")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
# The libraries' package names differ between releases, so a package is for one release.
set(CPACK_DEBIAN_PACKAGE_RELEASE "1~${release}${release_number}")
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${TANDEM_PACKAGE_MAINTAINER}")
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "LLM server for many LoRA adapters without cold starts")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "One base model and thousands of its LoRA adapters, over an OpenAI-style
REST interface, on an NVIDIA GPU or on the CPU. The service is tandem.service;
it starts once /etc/tandem/tandem.toml names a model.")
set(CPACK_DEBIAN_PACKAGE_DEPENDS "systemd | systemd-standalone-sysusers, passwd")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(scripts "${PROJECT_SOURCE_DIR}/packaging/debian")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${scripts}/postinst;${scripts}/prerm;${scripts}/postrm;${scripts}/conffiles")
if(TANDEM_HAVE_CUDA)
  # NVIDIA's packages are not in Debian's archive; the driver may be installed in any way.
  set(CPACK_DEBIAN_PACKAGE_NAME tandem-cuda)
  set(CPACK_DEBIAN_PACKAGE_PROVIDES tandem)
  set(CPACK_DEBIAN_PACKAGE_CONFLICTS tandem)
  set(CPACK_DEBIAN_PACKAGE_REPLACES tandem)
  string(REPLACE "." "-" cuda "${CUDAToolkit_VERSION_MAJOR}.${CUDAToolkit_VERSION_MINOR}")
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "cuda-cudart-${cuda}, libcublas-${cuda}")
  set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON) # so that libraries of no package are no error
else()
  set(CPACK_DEBIAN_PACKAGE_NAME tandem)
  set(CPACK_DEBIAN_PACKAGE_CONFLICTS tandem-cuda)
  set(CPACK_DEBIAN_PACKAGE_REPLACES tandem-cuda)
endif()
include(CPack)
