# Writes SOURCE, in which report_page() returns the file PAGE.
file(READ ${PAGE} page)
file(WRITE ${SOURCE} "#include \"report/page.h\"\n\nstd::string_view talon::report_page() {\n  return R\"talon(${page})talon\";\n}\n")
