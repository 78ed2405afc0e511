#pragma once

#include <string>
#include <vector>

#include "c/handles.h"
#include "draft/registry.h"

namespace talon {

// What users are told of heads that help little or not at all: a text for each head.

/// The heads of `model` in the folders that options name (head_folders()). Of those that cannot be
/// read it adds to `warnings`, which outlives the finder.
HeadFinder find_heads(const SharedModel& model, const char* const* folders, std::size_t count,
                      std::vector<std::string>& warnings);

/// Adds to `warnings` of heads that `drafter` names and that were made for another model. Throws
/// UsageError for a text that names no drafter.
void warn_of_heads(const std::string& drafter, const SharedModel& model,
                   std::vector<std::string>& warnings);

}  // namespace talon
