#pragma once

#include <cstddef>
#include <memory>

#include "draft/coupling/coupling.h"
#include "draft/drafter.h"
#include "draft/growth/dynamic_tree.h"
#include "draft/model/draft_model.h"

namespace talon {

struct ModelDrafterOptions {
  DynamicTreeShape shape;           // with a width of 1: a chain
  std::size_t cache_positions = 0;  // of all sequences; 0: the context of the model
  Coupling coupling;
  /// A chain's tokens are drawn from the model's law, processed as the request's own, where the
  /// rule wants drafts that are independent of what it draws with. REQUIRES: a chain, and no stage.
  bool draws = false;
  /// Guesses a chain's tokens for the model, which then checks them all in one pass: a chain is the
  /// same, only made in fewer passes (arXiv:2308.04623; model_stage.h). Its taps are those of the
  /// model. REQUIRES: a chain. Null: none.
  std::unique_ptr<Drafter> stage;
};

/// Drafts with a smaller model (arXiv:2211.17192, 2302.01318; docs/methods.md 4). It reads the
/// committed text in its own tokens and keeps it in its own cache, where what it drafted itself
/// stays as far as it became text. model: may be that of several drafters.
std::unique_ptr<Drafter> make_model_drafter(std::shared_ptr<const DraftModel> model,
                                            const Model& target, ModelDrafterOptions options);

}  // namespace talon
