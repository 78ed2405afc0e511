#include "serve/host/method_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "draft/growth/named_trees.h"
#include "io/quote.h"
#include "runtime/method.h"

namespace talon {
namespace {

constexpr std::size_t kLongestText = 256;

bool may_stand_in_option(char c) {
  const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  constexpr std::string_view kOthers = "_-+.:,=";
  return is_letter || (c >= '0' && c <= '9') || kOthers.find(c) != std::string_view::npos;
}

/// Whether each `tree=` is a name: others are files.
bool names_trees(std::string_view text) {
  constexpr std::string_view kKey = "tree=";
  for (std::size_t at = text.find(kKey); at != std::string_view::npos; at = text.find(kKey, at)) {
    at += kKey.size();
    if (!is_tree_name(text.substr(at, text.find_first_of(",+@", at) - at))) return false;
  }
  return true;
}

void check_part(std::string_view field, std::string_view text) {
  const auto refuse = [&](std::string_view expected) {
    throw UsageError(fmt::format("talon.{}: expected {}, found {}", field, expected, quote(text)));
  };
  if (text.size() > kLongestText) refuse(fmt::format("at most {} bytes", kLongestText));
  if (!std::all_of(text.begin(), text.end(), may_stand_in_option)) {
    refuse("a name and options of numbers and words");
  }
  std::vector<std::string_view> others(kWeightOptions.begin(), kWeightOptions.end());
  others.insert(others.end(), {"predictor", "codebook"});
  for (const std::string_view option : others) {
    const std::string key = fmt::format("{}=", option);
    if (text.find(key) != std::string_view::npos) {
      refuse(fmt::format("options without {}, which is the server's to say", key));
    }
  }
  if (!names_trees(text)) refuse(fmt::format("tree= {}", static_tree_names()));
}

}  // namespace

void check_choice(const MethodChoice& choice) {
  check_part("drafter", choice.drafter);
  check_part("policy", choice.policy);
  check_part("verify", choice.verify);
}

std::string problem_of(const MethodChoice& choice, std::string_view problem) {
  const std::string_view begin = problem.substr(0, problem.find(':'));
  for (const std::string_view part : {"drafter", "policy", "verify"}) {
    if (begin == part) return fmt::format("talon.{}", problem);
  }
  const auto names = [&](const std::string& text) {
    return !begin.empty() && text.starts_with(begin);
  };
  const std::string_view part = names(choice.drafter)  ? "drafter"
                                : names(choice.policy) ? "policy"
                                : names(choice.verify) ? "verify"
                                                       : "drafter";
  return fmt::format("talon.{}: {}", part, problem);
}

std::string text_of(const MethodChoice& choice, std::string_view drafter) {
  if (choice.drafter.empty() && choice.policy.empty() && choice.verify.empty()) return "";
  std::string text =
      choice.drafter.empty() ? std::string(drafter) : with_weights_of(drafter, choice.drafter);
  if (!choice.policy.empty()) text += "@policy=" + choice.policy;
  if (!choice.verify.empty()) text += "@verify=" + choice.verify;
  return text;
}

}  // namespace talon
