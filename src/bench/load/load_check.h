#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/load/load_run.h"
#include "bench/load/load_summary.h"

namespace talon {

/// The text that plain decoding in process gives a prompt; nothing once it is to stop.
using PlainText = std::function<std::optional<std::string>(const LoadPrompt&)>;

/// Compares the texts of servers, of those that were cut off as far as they went, with `plain`, and
/// notes in `results`, of the same slices, how many were compared and how many differ. Returns a
/// message for each that differs of a server that claims the same texts. `progress` is told how
/// many of all prompts are done.
std::vector<std::string> check_texts(std::span<const LoadSlice> slices,
                                     std::span<const bool> claims, const LoadPrompts& prompts,
                                     const PlainText& plain, std::vector<LoadResult>& results,
                                     const std::function<void(std::size_t, std::size_t)>& progress);

}  // namespace talon
