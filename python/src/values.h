#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "talon.h"
#include "without_lock.h"

// What the classes of the module share: failures, texts, arrays of ids, options of texts.
namespace talon::python {

namespace nb = nanobind;

using Ids = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Messages = std::vector<std::pair<std::string, std::string>>;

/// Carries the status to Python, where talon/errors.py chooses the class.
struct StatusFailure {
  int status;
  std::string message;
};

inline void check(talon_status status) {
  if (status != TALON_OK) throw StatusFailure{status, talon_last_error()};
}

struct Free {
  void operator()(void* memory) const { talon_free(memory); }
};

inline nb::bytes text_of(char* memory, std::size_t bytes) {
  const std::unique_ptr<char, Free> owner(memory);
  return nb::bytes(memory, bytes);
}

/// A numpy array that owns the ids.
inline nb::ndarray<nb::numpy, std::int32_t, nb::ndim<1>> array_of(std::int32_t* tokens,
                                                                  std::size_t count) {
  nb::capsule owner(tokens, [](void* memory) noexcept { talon_free(memory); });
  return {tokens, {count}, owner};
}

inline talon_text_options text_options(bool special, bool start) {
  talon_text_options options = talon_text_default();
  options.parse_special = options.skip_special = special ? 1 : 0;
  options.add_start = start ? 1 : 0;
  return options;
}

inline talon_text_options chat_options(bool prompt, const std::optional<std::string>& variables,
                                       const std::optional<std::string>& entries) {
  talon_text_options options = talon_text_default();
  options.add_generation_prompt = prompt ? 1 : 0;
  options.variables = variables ? variables->c_str() : nullptr;
  options.message_entries = entries ? entries->c_str() : nullptr;
  return options;
}

inline std::vector<talon_message> messages_of(const Messages& messages) {
  std::vector<talon_message> all;
  for (const auto& [role, content] : messages) all.push_back({role.c_str(), content.c_str()});
  return all;
}

}  // namespace talon::python
