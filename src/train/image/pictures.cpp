#include "train/image/pictures.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "core/error.h"
#include "io/json_text.h"
#include "io/sha256.h"

namespace talon {
namespace {

std::string text_of(const std::filesystem::path& file) {
  std::ifstream input(file, std::ios::binary);
  std::ostringstream text;
  text << input.rdbuf();
  if (!input) fail("read {}: cannot be read; scripts/icons.mjs makes it", file.string());
  return text.str();
}

/// Letters, flags and arrows are other things in a mirror.
bool may_be_mirrored(const std::string& category, const std::vector<std::string>& words) {
  static const std::set<std::string> sided = {"left",   "right", "clockwise", "counterclockwise",
                                              "oclock", "clock", "letter",    "letters",
                                              "button", "sign",  "keycap",    "arrow",
                                              "flag",   "abc",   "east",      "west"};
  if (category == "Symbols" || category == "Flags") return false;
  return std::ranges::none_of(words, [](const std::string& word) { return sided.contains(word); });
}

std::map<std::string, int> numbered(const std::vector<std::string>& names) {
  std::map<std::string, int> numbers;
  for (std::size_t i = 0; i < names.size(); ++i) numbers[names[i]] = static_cast<int>(i);
  return numbers;
}

}  // namespace

PictureSet::PictureSet(const std::filesystem::path& folder)
    : file_(read_safetensors(folder / "pictures.safetensors")) {
  const StoredTensor& pictures = file_.require("pictures");
  const auto& shape = pictures.shape;
  if (pictures.type != StorageType::u8 || shape.size() != 4 || shape[1] != shape[2] ||
      shape[3] != 3 || shape[1] < 1 || shape[1] > 4096) {
    fail("read {}: tensor \"pictures\": expected u8 [count, side, side, 3], found {} [{}]",
         file_.path.string(), name_of(pictures.type), fmt::join(shape, ", "));
  }
  bytes_ = pictures.bytes;
  side_ = static_cast<int>(shape[1]);
  read_words(folder / "words.json");
  read_index(folder / "index.jsonl");
  if (facts_.empty() || static_cast<std::int64_t>(facts_.size()) != shape[0]) {
    fail("read {}: expected a line for each of {} pictures, found {}",
         (folder / "index.jsonl").string(), shape[0], facts_.size());
  }
}

void PictureSet::read_words(const std::filesystem::path& file) {
  const std::string text = text_of(file);
  const Json json = parse_json(text, "read " + file.string());
  try {
    json.at("styles").get_to(styles_);
    json.at("words").get_to(words_);
  } catch (const Json::exception& problem) {
    fail("read {}: {}", file.string(), problem.what());
  }
}

void PictureSet::read_index(const std::filesystem::path& file) {
  const std::string text = text_of(file);
  sha256_ = sha256_of(std::as_bytes(std::span(text)));
  const auto styles = numbered(styles_), words = numbered(words_);
  std::vector<std::string> categories;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::string doing = fmt::format("read {}: line {}", file.string(), ++number);
    const Json json = parse_json(line, doing);
    try {
      PictureFacts facts;
      const auto style = styles.find(json.at("style").get<std::string>());
      if (style == styles.end()) fail("{}: expected a style of words.json", doing);
      facts.style = style->second;
      json.at("name").get_to(facts.name);
      const auto own = json.at("words").get<std::vector<std::string>>();
      for (const std::string& word : own) {
        if (const auto found = words.find(word); found != words.end())
          facts.words.push_back(found->second);
      }
      categories.push_back(json.at("category").get<std::string>());
      facts.held_out = json.at("split") == "held-out";
      facts.may_be_mirrored = may_be_mirrored(categories.back(), own);
      facts_.push_back(std::move(facts));
    } catch (const Json::exception& problem) {
      fail("{}: {}", doing, problem.what());
    }
  }
  categories_ = categories;
  std::ranges::sort(categories_);
  categories_.erase(std::ranges::unique(categories_).begin(), categories_.end());
  const auto category_numbers = numbered(categories_);
  for (std::size_t i = 0; i < facts_.size(); ++i)
    facts_[i].category = category_numbers.at(categories[i]);
}

std::string PictureSet::contents_sha256() const {
  Sha256 hash;
  const std::string names =
      fmt::format("{}\n{}\n{}\n", side_, fmt::join(styles_, " "), fmt::join(words_, " "));
  hash.update(std::as_bytes(std::span(names)));
  hash.update(bytes_);
  return hash.finish();
}

std::span<const std::uint8_t> PictureSet::pixels(std::size_t picture) const {
  const std::size_t bytes = static_cast<std::size_t>(side_) * static_cast<std::size_t>(side_) * 3;
  return {reinterpret_cast<const std::uint8_t*>(bytes_.data()) + picture * bytes, bytes};
}

std::vector<std::size_t> PictureSet::split(bool held_out) const {
  std::vector<std::size_t> pictures;
  for (std::size_t i = 0; i < facts_.size(); ++i) {
    if (facts_[i].held_out == held_out) pictures.push_back(i);
  }
  return pictures;
}

}  // namespace talon
