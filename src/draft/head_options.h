#pragma once

#include <string>

#include "backend/backend.h"
#include "core/option_text.h"
#include "draft/registry.h"

namespace talon {

// Options that all drafters with a head share.

constexpr int kMostDraftNodes = 1024;
constexpr int kMostDraftLevels = 64;
constexpr int kMostDraftChildren = 64;

/// `head=PATH`, or what the context knows of this kind; empty: there is none.
std::string take_head_path(OptionText& options, const DrafterContext& context,
                           std::string_view kind);
/// `weights=int8`: how the head is kept.
WeightLayout take_layout(OptionText& options);

/// Throws UsageError unless there is a head.
void require_head(const OptionText& options, const std::string& path);

}  // namespace talon
