#include "draft/head/logit_form.h"

namespace talon {

SaidLogitForm SaidLogitForm::read(const ConfigKeys& keys) {
  constexpr std::string_view kScale = "logit_scale", kCap = "final_logit_softcapping";
  SaidLogitForm said;
  if (keys.has(kScale)) said.scale = static_cast<float>(keys.number(kScale, 1e-6, 1e6));
  if (keys.has(kCap)) said.cap = static_cast<float>(keys.number(kCap, 0, 1e9));
  return said;
}

LogitForm SaidLogitForm::beside(const ModelConfig& target, bool has_rows_of_target) const {
  const LogitForm usual = has_rows_of_target ? LogitForm::of(target) : LogitForm();
  return {scale.value_or(usual.scale), cap.value_or(usual.cap)};
}

}  // namespace talon
