#include "serve/host/method_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "core/error.h"
#include "draft/eagle/trees/named_trees.h"
#include "io/quote.h"

namespace talon {
namespace {

constexpr std::size_t kLongestText = 256;

bool may_stand_in_option(char c) {
  const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  constexpr std::string_view kOthers = "_-+.:,=";
  return is_letter || (c >= '0' && c <= '9') || kOthers.find(c) != std::string_view::npos;
}

/// Whether each value of option `key`, "model=", passes.
bool all_values(std::string_view text, std::string_view key,
                const std::function<bool(std::string_view value)>& passes) {
  for (std::size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at)) {
    at += key.size();
    if (!passes(text.substr(at, text.find_first_of(",+@", at) - at))) return false;
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
  for (const std::string_view key : {"head=", "weights=", "predictor=", "codebook="}) {
    if (text.find(key) != std::string_view::npos) {
      refuse(fmt::format("options without {}, which is the server's to say", key));
    }
  }
  // Other values are files.
  if (!all_values(text, "model=", [](std::string_view value) { return value == "self"; }))
    refuse("options without model= but model=self");
  if (!all_values(text, "tree=", is_tree_name))
    refuse(fmt::format("tree= {}", static_tree_names()));
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
  std::string text = choice.drafter.empty() ? std::string(drafter) : choice.drafter;
  if (!choice.policy.empty()) text += "@policy=" + choice.policy;
  if (!choice.verify.empty()) text += "@verify=" + choice.verify;
  return text;
}

}  // namespace talon
