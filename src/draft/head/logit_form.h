#pragma once

#include <optional>

#include "model/config/config.h"
#include "model/config/config_keys.h"

namespace talon {

/// How products with an output matrix become logits: times `scale`, then within `cap`.
struct LogitForm {
  float scale = 1;
  float cap = 0;  // 0: none

  static LogitForm of(const ModelConfig& target) { return {target.logit_scale, target.logit_cap}; }
  bool operator==(const LogitForm&) const = default;
};

/// What the files of a head say of that, as far as they do: `logit_scale`, a factor, and
/// `final_logit_softcapping`, 0 for none.
struct SaidLogitForm {
  std::optional<float> scale, cap;

  /// Throws Error for a value out of range.
  static SaidLogitForm read(const ConfigKeys& keys);
  /// That of the head. Where its files say nothing products with rows of the target become logits
  /// as the target's do, and others are logits.
  LogitForm beside(const ModelConfig& target, bool has_rows_of_target) const;
};

/// Says it in a file that is made of the head, whosever rows its output matrix then has, with
/// add(key, value). Of a plain head of a plain target it says nothing.
template <typename Add>
void say_logit_form(const LogitForm& form, const ModelConfig& target, const Add& add) {
  if (form == LogitForm() && LogitForm::of(target) == LogitForm()) return;
  add("logit_scale", form.scale);
  add("final_logit_softcapping", form.cap);
}

}  // namespace talon
