#include "draft/drafters.h"

namespace talon {
namespace {

class NoneDrafter : public Drafter {
 public:
  DrafterTraits traits() const override {
    DrafterTraits traits;
    traits.is_plain = true;
    return traits;
  }
  std::unique_ptr<DraftState> start() override { return std::make_unique<DraftState>(); }
  void observe(DraftState&, const CommittedTokens&) override {}
  void propose(std::span<DraftJob>) override {}
};

std::unique_ptr<Drafter> make_none(Options&, const DrafterContext&) {
  return std::make_unique<NoneDrafter>();
}

}  // namespace

DrafterEntry none_drafter() {
  return {.name = "none",
          .summary = "plain decoding: proposes nothing",
          .options = {},
          .make = make_none};
}

}  // namespace talon
