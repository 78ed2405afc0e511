#pragma once

#include <string_view>

namespace talon {

/// web/report/dist/index.html, which CMake turns into a source file.
std::string_view report_page();

}  // namespace talon
