#include "draft/drafters.h"

namespace talon {
namespace {

class NoneDrafter : public Drafter {
 public:
  std::unique_ptr<DraftState> start() override { return std::make_unique<DraftState>(); }
  void observe(DraftState&, const CommittedTokens&) override {}
  void propose(std::span<DraftJob>) override {}
};

}  // namespace

std::unique_ptr<Drafter> make_none_drafter(OptionText&, const DrafterContext&) {
  return std::make_unique<NoneDrafter>();
}

}  // namespace talon
