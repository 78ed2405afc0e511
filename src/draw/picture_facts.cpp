#include "draw/picture_facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

namespace talon {
namespace {

constexpr std::string_view kDrafter = "drafter", kPolicy = "policy";
/// All that decide about pixels, with kComputedBy and, where drafts are let through, what drafts.
constexpr std::string_view kDeciding[] = {"prompt",
                                          "caption_features",
                                          "seed",
                                          "guidance",
                                          "guidance_tokens",
                                          "temperature",
                                          "top_k",
                                          "top_p",
                                          "min_p",
                                          "typical_p",
                                          "repetition_penalty",
                                          "presence_penalty",
                                          "frequency_penalty",
                                          "penalty_window",
                                          "logit_bias",
                                          "banned",
                                          "model",
                                          "sheet",
                                          "verify"};

std::string_view text_of(const PngTexts& texts, std::string_view key) {
  const auto found = std::ranges::find(texts, key, &PngTexts::value_type::first);
  return found == texts.end() ? std::string_view() : found->second;
}

/// "12:-1.5 40:2": tokens and what is added to their logits.
std::string bias_text(const std::vector<std::pair<TokenId, float>>& bias) {
  std::string text;
  for (const auto& [token, value] : bias) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : " ", token, value);
  }
  return text;
}

}  // namespace

PngTexts computed_by(const LoadedModel& loaded, const VqDecoder& decoder, BackendKind backend,
                     KvType kv) {
  const ImagePlan& plan = *loaded.model.config.image;
  const bool reference = backend == BackendKind::reference;
  return {{"model_fingerprint", loaded.fingerprint},
          {"vq_fingerprint", decoder.fingerprint()},
          {"cells", fmt::format("{}x{}", plan.columns, plan.rows)},
          {"weights", std::string(name_of(loaded.weights))},
          {"activations", reference ? "none" : std::string(name_of(loaded.activations))},
          {"kv", std::string(name_of(kv))},
          {"backend", reference ? "reference" : "cpu"}};
}

PngTexts texts_of(const PictureFacts& facts) {
  const SamplerOptions& s = facts.sampler;
  PngTexts texts = {{"prompt", facts.prompt},
                    {"seed", fmt::to_string(facts.seed)},
                    {"guidance", fmt::to_string(facts.guidance)},
                    {"temperature", fmt::to_string(s.temperature)}};
  if (!facts.caption.empty()) texts.emplace_back("caption_features", facts.caption);
  const auto add = [&](std::string_view key, double value, double usual) {
    if (value != usual) texts.emplace_back(key, fmt::to_string(value));
  };
  add("guidance_tokens", facts.guidance_tokens, 0);
  const SamplerOptions usual;
  add("top_k", s.top_k, usual.top_k);
  add("top_p", s.top_p, usual.top_p);
  add("min_p", s.min_p, usual.min_p);
  add("typical_p", s.typical_p, usual.typical_p);
  add("repetition_penalty", s.repetition_penalty, usual.repetition_penalty);
  add("presence_penalty", s.presence_penalty, usual.presence_penalty);
  add("frequency_penalty", s.frequency_penalty, usual.frequency_penalty);
  add("penalty_window", s.penalty_window, usual.penalty_window);
  if (!s.logit_bias.empty()) texts.emplace_back("logit_bias", bias_text(s.logit_bias));
  if (!s.banned.empty()) texts.emplace_back("banned", fmt::format("{}", fmt::join(s.banned, " ")));
  texts.emplace_back("model", facts.model);
  texts.emplace_back(kDrafter, facts.drafter);
  if (!facts.verify.empty() && facts.verify != "follow") {
    texts.emplace_back("verify", facts.verify);
    if (!facts.policy.empty()) texts.emplace_back(kPolicy, facts.policy);
  }
  texts.insert(texts.end(), facts.computed_by.begin(), facts.computed_by.end());
  return texts;
}

std::string difference(const PngTexts& found, const PictureFacts& facts) {
  const PngTexts wanted = texts_of(facts);
  std::vector<std::string_view> keys(std::begin(kDeciding), std::end(kDeciding));
  keys.insert(keys.end(), std::begin(kComputedBy), std::end(kComputedBy));
  if (!facts.keeps_codes) keys.insert(keys.end(), {kDrafter, kPolicy});
  for (const std::string_view key : keys) {
    const std::string_view there = text_of(found, key), here = text_of(wanted, key);
    if (there == here) continue;
    const auto shown = [](std::string_view text) { return text.empty() ? "none" : text; };
    return fmt::format("{} {}, not {}", key, shown(there), shown(here));
  }
  return "";
}

}  // namespace talon
