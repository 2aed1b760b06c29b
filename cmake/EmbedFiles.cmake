# cmake -DOUT=files.cpp -DFOLDER=dir -DFILES=a.html,b.js -P EmbedFiles.cmake
# Writes a source file with the bytes of these files (base/dashboard/page_files.h), each with a tag
# that changes when the bytes change.
string(REPLACE "," ";" FILES "${FILES}")
set(bytes "")
set(rows "")
set(number 0)
foreach(file ${FILES})
  file(READ "${FOLDER}/${file}" hex HEX)
  file(SHA256 "${FOLDER}/${file}" digest)
  string(SUBSTRING "${digest}" 0 16 digest)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," hex "${hex}")
  string(APPEND bytes "constexpr char kFile${number}[] = {${hex}};\n")
  string(APPEND rows
         "    {\"${file}\", std::string_view(kFile${number}, sizeof(kFile${number})), \"\\\"${digest}\\\"\"},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE "${OUT}" "#include \"base/dashboard/page_files.h\"

namespace tandem {
namespace {

${bytes}
constexpr PageFile kFiles[] = {
${rows}};

}  // namespace

std::span<const PageFile> page_files() {
  return kFiles;
}

}  // namespace tandem
")
