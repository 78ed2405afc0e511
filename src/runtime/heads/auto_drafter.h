#pragma once

#include <string>

#include "draft/registry.h"
#include "model/config/config.h"

namespace talon {

/// What a model makes.
enum class OutputKind { text, picture };
OutputKind output_kind(const ModelConfig& config);

/// The drafter that `auto` stands for: the strongest head there is, a trained one before the
/// model's own prediction layer, joined with a drafter that needs no head: `suffix` for texts,
/// `jacobi` for pictures; the latter alone where there is no head. Every other text stands for
/// itself. Throws UsageError for a drafter that does not exist, and for an `auto` that has options
/// or others beside it.
std::string resolve_drafter(const std::string& drafter, const HeadFinder& heads,
                            OutputKind output = OutputKind::text);

}  // namespace talon
