#pragma once

#include <span>

#include "bench/page/page.h"
#include "io/json.h"

namespace talon {

/// Lines as `talon bench cost` prints them, the closing one last.
PageTable cost_table(std::span<const Json> lines);
/// c(n), milliseconds beside the limit, and where they go, for each context.
Page cost_page(std::span<const Json> lines);

/// Lines as `talon bench kernels` prints them, the closing one last.
PageTable kernel_table(std::span<const Json> lines);
/// One roofline for each instruction set, shape and format: what is reached against rows, below
/// what the machine allows.
Page kernel_page(std::span<const Json> lines);

}  // namespace talon
