#include "learn/learned_heads.h"

#include <algorithm>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "draft/head/gguf_head.h"
#include "io/checkpoint.h"
#include "io/quote.h"

namespace talon {
namespace {

// Of the trainer's export, which writes the configuration last, and of what replaces it.
constexpr const char* kConfiguration = "config.json";
constexpr const char* kWeights = "model.safetensors";
constexpr const char* kPacked = "head.gguf";

/// The newest first.
std::vector<std::string> names_of_heads(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator entry(folder / "heads", error);
  while (!error && entry != std::filesystem::directory_iterator()) {
    const std::string name = "heads/" + entry->path().filename().string();
    if (is_name_of_head(name)) names.push_back(name);
    entry.increment(error);
  }
  std::ranges::sort(names, [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() > b.size() : a > b;
  });
  return names;
}

}  // namespace

bool is_whole_head(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / kConfiguration) ||
         std::filesystem::exists(folder / kPacked);
}

void bring_into_form(const std::filesystem::path& folder, const std::filesystem::path& target,
                     const HeadForm& form) {
  if (!form.in_four_bits) return;
  if (std::filesystem::exists(folder / kConfiguration)) {
    const HeadOutput output = form.shares_output ? HeadOutput::of_target : HeadOutput::in_file;
    write_gguf_head(open_checkpoint(folder), open_checkpoint(target), HeadStorage::q4_1,
                    folder / kPacked, output);
    std::filesystem::remove(folder / kConfiguration);  // without it head.gguf is read
  }
  std::filesystem::remove(folder / kWeights);
}

LearnState adopt_head(const std::filesystem::path& folder, const std::filesystem::path& trained,
                      const LearnState& state) {
  LearnState next = state;
  next.head = fmt::format("heads/{:04}", state.rounds + 1);
  if (next.head == state.head) next.head = fmt::format("heads/{:04}", state.rounds + 2);
  ++next.swaps;
  const auto place = folder / next.head;
  std::error_code error;
  std::filesystem::create_directories(folder / "heads", error);
  if (!error) std::filesystem::remove_all(place, error);
  if (!error) std::filesystem::rename(trained, place, error);
  if (error) {
    fail("learn: move {} to {}: {}", quote(trained.string()), quote(place.string()),
         error.message());
  }
  try {
    write_state(folder, next);
  } catch (...) {
    std::filesystem::rename(place, trained, error);
    throw;
  }
  return next;
}

void drop_other_heads(const std::filesystem::path& folder, const LearnState& state,
                      const std::string& before) {
  std::error_code ignored;
  for (const std::string& name : names_of_heads(folder)) {
    if (name != state.head && name != before) std::filesystem::remove_all(folder / name, ignored);
  }
}

std::string usable_head(const std::filesystem::path& folder, const LearnState& state,
                        const std::function<void(const std::filesystem::path&)>& check,
                        const LearnNote& note) {
  if (state.head.empty()) return "";
  std::vector<std::string> names = names_of_heads(folder);
  std::erase(names, state.head);
  names.insert(names.begin(), state.head);
  for (const std::string& name : names) {
    try {
      check(folder / name);
      if (name != state.head) note(fmt::format("learn: {} is used in its place", name));
      return name;
    } catch (const std::exception& error) {
      note(fmt::format("learn: the head {} cannot be used: {}", name, error.what()));
    }
  }
  note("learn: the head that the folder began with is used in its place");
  return "";
}

}  // namespace talon
