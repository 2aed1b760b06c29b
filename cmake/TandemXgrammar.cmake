# XGrammar's C++ core (structured output), compiled from the sources that tools/install-headers takes
# from its PyPI sdist: one imported-looking target, xgrammar::xgrammar. Not ours: its warnings are its
# own, and neither lint nor the sanitizers' debug information are spent on it.
set(xgrammar "${PROJECT_SOURCE_DIR}/.deps/xgrammar-0.2.8")
if(NOT EXISTS "${xgrammar}/sha256")
  message(FATAL_ERROR "XGrammar's sources are not in ${xgrammar}. Run tools/install-headers (3 MB from PyPI)")
endif()
file(GLOB xgrammar_sources "${xgrammar}/cpp/*.cc" "${xgrammar}/cpp/support/*.cc")
# The small ones as one file: what they take is their headers' time.
file(GLOB xgrammar_small "${xgrammar}/cpp/converter_ext/*.cc")
foreach(name compiled_grammar config grammar grammar_builder grammar_printer regex_converter suffix_automata testing)
  list(APPEND xgrammar_small "${xgrammar}/cpp/${name}.cc")
endforeach()
list(REMOVE_ITEM xgrammar_sources ${xgrammar_small})
set_source_files_properties(${xgrammar_small} PROPERTIES UNITY_GROUP small)
add_library(xgrammar STATIC EXCLUDE_FROM_ALL ${xgrammar_sources} ${xgrammar_small})
set_target_properties(xgrammar PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
target_include_directories(xgrammar SYSTEM PUBLIC "${xgrammar}/include" "${xgrammar}/3rdparty/dlpack/include"
  PRIVATE "${xgrammar}/3rdparty/picojson")
# What it has to say comes to us (engine/constraint/xgrammar_log.cpp), not to stderr.
target_compile_definitions(xgrammar PRIVATE XGRAMMAR_ENABLE_CPPTRACE=0 XGRAMMAR_ENABLE_INTERNAL_CHECK=0
  XGRAMMAR_LOG_CUSTOMIZE=1)
# Its masks are searched for at -O2 as fast as at -O3, which takes the compiler half as long again.
target_compile_options(xgrammar PRIVATE -w -g0 $<IF:$<CONFIG:Debug>,-O1,-O2>)
target_link_libraries(xgrammar PUBLIC Threads::Threads)
add_library(xgrammar::xgrammar ALIAS xgrammar)
