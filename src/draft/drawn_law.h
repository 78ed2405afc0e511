#pragma once

#include <span>

#include "core/types.h"
#include "sample/sampler.h"
#include "tree/law.h"

namespace talon {

/// A draw of a request's next token.
struct NextDraw {
  const SamplerOptions& options;
  int answered = 0;  // tokens of the answer before it
};

/// What a draft token is drawn from: the law of these logits, processed as the request's own but
/// for what it has of its text (penalties), since any law is right that the rule is told.
/// target_token: of each logit; empty: the same. Those that are none of the target's `vocabulary`
/// tokens are left out. Throws Error if no token can be drawn.
Law<double> drawn_law(std::span<const float> logits, std::span<const TokenId> target_token,
                      int vocabulary, const NextDraw& draw);

}  // namespace talon
