#pragma once

#include "bench/page/page.h"
#include "trace/reliability.h"

namespace talon {

PageTable reliability_table(const Reliability& reliability);
Page reliability_page(const Reliability& reliability, std::string_view subtitle);

}  // namespace talon
