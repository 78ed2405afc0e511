#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "c/turns.h"
#include "core/stop.h"
#include "runtime/loaded_model.h"
#include "text/chat_template.h"
#include "text/grammar/recent_grammars.h"

namespace talon {

inline constexpr int kMostTreeNodes = 4096;  // drafted at once for one text

/// A model with all that its users share. Engines, speculators and the caller's handle own it
/// together, so the caller may free them in any order: hence shared_ptr.
struct SharedModel {
  explicit SharedModel(LoadedModel opened) : loaded(std::move(opened)) {
    if (loaded.threads > 1) turns.stay_in_process();
    if (loaded.tokenizer && !loaded.model.config.image)
      grammars.emplace(*loaded.tokenizer, loaded.model.config.vocabulary);
  }

  LoadedModel loaded;
  std::optional<ChatTemplate> chat;
  std::optional<ChatTemplate> tool_chat;  // for chats with tools; none: the same
  std::string chat_problem;               // why there is none
  /// Of requests with a form; reads the vocabulary for the first. None: without a tokenizer, and of
  /// models of pictures.
  std::optional<RecentGrammars> grammars;
  std::string path;
  Turns turns;  // of those that compute on its backend

  /// Throws UsageError for an id that the model has not, naming `argument`.
  void check_tokens(std::span<const TokenId> tokens, const std::string& argument) const;
};

/// A callback for notes; may be empty. What it throws is lost: no work fails for want of a note.
struct Log {
  talon_log_fn call = nullptr;
  void* user = nullptr;

  void operator()(talon_log_level level, const std::string& message) const noexcept {
    if (!call) return;
    try {
      call(user, level, message.c_str());
    } catch (...) {  // of a callback in C++
    }
  }
};

// Arguments. Each throws UsageError naming the one that is wrong.
/// `count` values, which may be none without an address.
template <typename T>
std::span<const T> require_array(const T* values, std::size_t count, const std::string& argument) {
  if (count > 0) require_pointer(values, argument, "an array");
  return {values, count};
}
bool require_flag(std::int32_t value, const std::string& argument);
std::filesystem::path path_or_empty(const char* path);
/// What options say of heads; NULL: where those that ship with the library lie.
std::vector<std::filesystem::path> head_folders(const char* const* folders, std::size_t count);

// Memory for the caller, which talon_free() frees.
/// Of a call that may fail still: nothing.
template <typename T>
void give_nothing(T** out, std::size_t* count) {
  if (out) *out = nullptr;
  if (count) *count = 0;
}
void give_text(std::string_view text, char** out, std::size_t* bytes);
void give_tokens(std::span<const TokenId> tokens, std::int32_t** out, std::size_t* count);

}  // namespace talon

struct talon_model {
  std::shared_ptr<talon::SharedModel> shared;
};

struct talon_cancel {
  talon::StopFlag flag;
};
