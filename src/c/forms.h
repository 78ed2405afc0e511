#pragma once

#include <memory>
#include <optional>

#include "c/handles.h"
#include "sample/token_constraint.h"
#include "talon.h"
#include "text/grammar/grammar.h"

namespace talon {

/// What the answer must look like; nothing: anything. Throws UsageError naming the field for a form
/// that is none, and for a text without a form or a form without one.
std::optional<GrammarText> form_of(const talon_request& request);

/// The same, compiled with the model's vocabulary or remembered from an earlier request; null:
/// anything. Throws UsageError naming the field for forms that are wrong, Error for a model without
/// a tokenizer, and a StatusError with TALON_QUEUE_FULL where the machine is too busy to compile.
/// Takes no turn: it may take seconds, and computes on no backend.
std::shared_ptr<const ConstraintSource> constraint_of(const talon_request& request,
                                                      SharedModel& model);

}  // namespace talon
