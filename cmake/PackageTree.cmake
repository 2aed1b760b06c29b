# CPack runs this on the installed files before it packs them, to make them follow Debian's policy.
file(GLOB pages "${CPACK_TEMPORARY_DIRECTORY}/usr/share/man/man1/*.1")
set(documents "${CPACK_TEMPORARY_DIRECTORY}/usr/share/doc/tandem")
file(RENAME "${documents}/CHANGELOG.md" "${documents}/changelog")
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(WRITE "${documents}/changelog.Debian" "${CPACK_DEBIAN_PACKAGE_NAME} (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) stable; urgency=medium

  * changelog.gz tells what changed.

 -- ${CPACK_DEBIAN_PACKAGE_MAINTAINER}  ${now}
")
foreach(file ${pages} "${documents}/changelog" "${documents}/changelog.Debian")
  execute_process(COMMAND gzip -9n "${file}" COMMAND_ERROR_IS_FATAL ANY)
endforeach()
file(REMOVE "${documents}/LICENSE")  # `copyright` names where Debian has it
execute_process(COMMAND chmod -R u=rwX,go=rX "${CPACK_TEMPORARY_DIRECTORY}" COMMAND_ERROR_IS_FATAL ANY)
