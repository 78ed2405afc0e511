#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace talon {

/// A way to answer, as one text: DRAFTER[@policy=POLICY][@verify=RULE], each with its own options:
/// `eagle3:nodes=32,topk=8+ngram@policy=ddd:threshold=0.1@verify=follow`.
struct MethodText {
  std::string text;  // all of it, which is its name
  std::string drafter;
  std::string policy;  // empty: none given
  std::string verify;  // empty: none given
};

/// Throws UsageError for an @key that is neither policy nor verify, or given twice, or empty.
MethodText parse_method(std::string_view text);

/// With another drafter, and the same policy and rule.
MethodText with_drafter(const MethodText& method, const std::string& drafter);

/// Splits `none,ngram:nodes=8,levels=4@policy=fixed,eagle2@policy=ddd` at the commas that begin a
/// method, not those between options. Throws UsageError for a piece between commas that is empty.
std::vector<std::string> split_methods(std::string_view list);

/// Options of drafters that say which weights they have. All others say what is made of them.
inline constexpr std::array<std::string_view, 5> kWeightOptions = {"head", "model", "weights",
                                                                   "skip", "taps"};

/// The drafters in `drafter` that have weights, with the options that say which alone: each once
/// and sorted, joined with +. `none` if there are none. Throws UsageError for options that cannot
/// be read.
std::string weights_of(std::string_view drafter);

/// `asked`, whose drafters have the weights that those of their names have in `own`. Throws
/// UsageError for options of `asked` that cannot be read.
std::string with_weights_of(std::string_view own, std::string_view asked);

}  // namespace talon
