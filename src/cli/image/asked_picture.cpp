#include "cli/image/asked_picture.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/error.h"
#include "io/quote.h"

namespace talon {
namespace {

constexpr double kMostGuidance = 1e6;
constexpr std::uint64_t kMostGuidanceTokens = 1 << 20;
constexpr const char* kAskedBy[] = {"prompt", "class", "caption_features"};

/// The one key of those that ask for a picture.
std::string asking_key(const Json& line, const std::string& doing) {
  std::string key;
  int found = 0;
  for (const char* one : kAskedBy) {
    if (!line.is_object() || !line.contains(one) || line[one].is_null()) continue;
    key = one;
    ++found;
  }
  if (found == 1) return key;
  throw UsageError(
      fmt::format("{}: expected one of \"prompt\", \"class\" and \"caption_features\", found {}",
                  doing, line.is_object() ? fmt::to_string(found) : std::string(line.type_name())));
}

AskedPicture read_asked(const LoadedModel& loaded, const std::string& key, const Json& value) {
  const Model& model = loaded.model;
  AskedPicture asked;
  if (key == "class" && value.is_number_integer()) {
    const auto number = value.get<long long>();
    asked.shown = fmt::format("class {}", number);
    asked.prompt =
        class_prompt(model, number == static_cast<int>(number) ? static_cast<int>(number) : -1);
    return asked;
  }
  if (!value.is_string()) {
    throw UsageError(fmt::format("{}: expected a {}, found {}", key,
                                 key == "class" ? "number or a name" : "text", value.dump()));
  }
  asked.shown = value.get<std::string>();
  if (key == "caption_features") {
    asked.caption = asked.shown;
    const CaptionFeatures features = read_caption(model, asked.caption);
    asked.caption_hash = hash_of(features);
    asked.prompt = caption_tokens(model, features);
    return asked;
  }
  if (key == "class") class_prompt(model, 0);  // a model that is asked by classes
  asked.prompt = text_prompt(model, loaded.tokenizer_or_null(), asked.shown);
  return asked;
}

}  // namespace

PicturePrompt AskedPicture::whole(const LoadedModel& loaded) const {
  if (caption.empty()) return prompt;
  const CaptionFeatures features = read_caption(loaded.model, caption);
  if (hash_of(features) != caption_hash)
    fail("read {}: expected the features that were there at first, found others", caption.string());
  return caption_prompt(loaded.model, features);
}

AskedPicture read_asked_picture(const LoadedModel& loaded, const Json& line,
                                const std::string& doing) {
  const std::string key = asking_key(line, doing);
  try {
    AskedPicture asked = read_asked(loaded, key, line[key]);
    require_room(loaded.model, asked.prompt);
    return asked;
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", doing, error.what()));
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", doing, error.what()));
  }
}

LineSettings::LineSettings(const Json& line, std::span<const std::string_view> keys,
                           std::string doing)
    : line_(line), doing_(std::move(doing)) {
  if (!line.is_object()) refuse("expected an object", line.type_name());
  for (const auto& [key, value] : line.items()) {
    if (std::ranges::find(keys, key) == keys.end())
      refuse(fmt::format("expected keys among {}", fmt::join(keys, ", ")), quote(key));
  }
}

std::uint64_t LineSettings::seed(std::uint64_t usual) const {
  const Json* value = find("seed");
  if (!value) return usual;
  if (!value->is_number_unsigned())
    refuse("seed: expected a whole number of at least 0", value->dump());
  return value->get<std::uint64_t>();
}

float LineSettings::guidance(float usual) const {
  const Json* value = find("guidance");
  if (!value) return usual;
  const double number = value->is_number() ? value->get<double>() : -1;
  if (!(number >= 0 && number <= kMostGuidance))
    refuse(fmt::format("guidance: expected a number from 0 to {}", kMostGuidance), value->dump());
  return static_cast<float>(number);
}

int LineSettings::guidance_tokens(int usual) const {
  const Json* value = find("guidance_tokens");
  if (!value) return usual;
  const bool is_whole = value->is_number_unsigned();
  if (!is_whole || value->get<std::uint64_t>() > kMostGuidanceTokens) {
    refuse(
        fmt::format("guidance_tokens: expected a whole number from 0 to {}", kMostGuidanceTokens),
        value->dump());
  }
  return value->get<int>();
}

const Json* LineSettings::find(std::string_view key) const {
  const auto found = line_.find(key);
  return found == line_.end() || found->is_null() ? nullptr : &*found;
}

void LineSettings::refuse(std::string_view expected, std::string_view found) const {
  throw UsageError(fmt::format("{}: {}, found {}", doing_, expected, found));
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

}  // namespace talon
