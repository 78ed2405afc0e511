#pragma once

#include <string>
#include <string_view>

#include "io/checkpoint.h"
#include "model/config/config.h"

namespace talon {

/// Drafters with heads of their own, the likely strongest first, and behind them that of the layer
/// which came with the model.
constexpr std::string_view kHeadKinds[] = {"eagle3", "dspark", "dflash", "peagle",
                                           "eagle2", "medusa", "mtp"};
/// Of which of them the files hold a head; empty: none.
std::string kind_of_head(const Checkpoint& checkpoint);
/// Throws Error naming the field in which a head and a target disagree.
void check_head_fits(const Checkpoint& head, const ModelConfig& target);

}  // namespace talon
