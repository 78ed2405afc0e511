# Writes SOURCE, which holds the page DIST/index.html, the same zipped, and DIST/policy.txt.
file(READ ${DIST}/index.html page)
file(READ ${DIST}/policy.txt policy)
file(ARCHIVE_CREATE OUTPUT ${SOURCE}.gz PATHS ${DIST}/index.html FORMAT raw COMPRESSION GZip)
file(READ ${SOURCE}.gz zipped HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${zipped}")
file(WRITE ${SOURCE} "#include \"serve/page/page.h\"

namespace {
constexpr unsigned char kZipped[] = {${bytes}};
}

std::string_view talon::chat_page() { return R\"talon(${page})talon\"; }
std::string_view talon::chat_page_gzip() {
  return {reinterpret_cast<const char*>(kZipped), sizeof(kZipped)};
}
std::string_view talon::chat_page_policy() { return R\"talon(${policy})talon\"; }
")
