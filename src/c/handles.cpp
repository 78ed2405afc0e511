#include "c/handles.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace talon {
namespace {

void* allocate(std::size_t bytes) {
  void* memory = std::malloc(bytes);
  if (!memory) throw std::bad_alloc();
  return memory;
}

/// The file that holds this code: the shared library, or the program it is linked to.
std::filesystem::path own_file() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&talon_version), &info) == 0 || !info.dli_fname)
    return {};
  std::error_code ignored;
  return std::filesystem::weakly_canonical(info.dli_fname, ignored);
}

}  // namespace

void SharedModel::check_tokens(std::span<const TokenId> tokens, const std::string& argument) const {
  const int vocabulary = loaded.model.config.vocabulary;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < vocabulary) continue;
    throw UsageError(fmt::format("{}[{}]: expected a token id from 0 to {}, found {}", argument, i,
                                 vocabulary - 1, tokens[i]));
  }
}

bool require_flag(std::int32_t value, const std::string& argument) {
  require(value == 0 || value == 1, argument, "0 or 1", value);
  return value == 1;
}

std::filesystem::path path_or_empty(const char* path) {
  return path ? std::filesystem::path(path) : std::filesystem::path();
}

std::vector<std::filesystem::path> head_folders(const char* const* folders, std::size_t count) {
  std::vector<std::filesystem::path> places;
  for (const char* folder : require_array(folders, count, "options->head_folders")) {
    places.emplace_back(&require_pointer(
        folder, fmt::format("options->head_folders[{}]", places.size()), "a path"));
  }
  if (folders) return places;
  // Installed, the library lies in lib or in lib/ARCHITECTURE.
  const std::filesystem::path folder = own_file().parent_path().parent_path();
  for (const auto& prefix : {folder, folder.parent_path()})
    places.push_back(prefix / "share" / "talon" / "models");
  return places;
}

void give_text(std::string_view text, char** out, std::size_t* bytes) {
  require_pointer(out, "text", "an address to fill");
  require_pointer(bytes, "bytes", "an address to fill");
  auto* memory = static_cast<char*>(allocate(text.size() + 1));
  std::memcpy(memory, text.data(), text.size());
  memory[text.size()] = '\0';
  *out = memory;
  *bytes = text.size();
}

void give_tokens(std::span<const TokenId> tokens, std::int32_t** out, std::size_t* count) {
  require_pointer(out, "tokens", "an address to fill");
  require_pointer(count, "count", "an address to fill");
  auto* memory = static_cast<std::int32_t*>(allocate(tokens.size_bytes() + sizeof(std::int32_t)));
  std::memcpy(memory, tokens.data(), tokens.size_bytes());
  *out = memory;
  *count = tokens.size();
}

}  // namespace talon

void talon_free(void* memory) { std::free(memory); }

talon_status talon_cancel_new(talon_cancel** cancel) {
  return talon::guarded(__func__, [&] {
    talon_cancel*& out = talon::require_pointer(cancel, "cancel", "an address to fill");
    out = new talon_cancel;
  });
}

void talon_cancel_request(talon_cancel* cancel) {
  if (cancel) cancel->flag.request();
}

void talon_cancel_clear(talon_cancel* cancel) {
  if (cancel) cancel->flag.clear();
}

void talon_cancel_free(talon_cancel* cancel) { delete cancel; }
