#include "verify/first_token.h"

#include <utility>

namespace talon {
namespace {

class FirstToken : public Verifier {
 public:
  explicit FirstToken(std::unique_ptr<Verifier> rule) : rule_(std::move(rule)) {}
  std::string_view name() const override { return rule_->name(); }
  bool lossless() const override { return rule_->lossless(); }
  bool drafts_may_know_noise() const override { return rule_->drafts_may_know_noise(); }
  int codes() const override { return rule_->codes(); }
  VerifyResult verify(const VerifyInput& input) const override {
    VerifyResult result = rule_->verify(input);
    if (result.path.size() > 1) {
      result.next = (*input.tree)[result.path[1]].token;
      result.path.resize(1);
    }
    return result;
  }

 private:
  std::unique_ptr<Verifier> rule_;
};

}  // namespace

std::unique_ptr<Verifier> first_token_of(std::unique_ptr<Verifier> rule) {
  return std::make_unique<FirstToken>(std::move(rule));
}

}  // namespace talon
