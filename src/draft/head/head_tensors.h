#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/checkpoint.h"

namespace talon {

/// The common name (HeadTensors) of a tensor of a file in any layout but GGUF; nothing for one
/// without meaning.
std::optional<std::string> common_head_name(std::string_view name);

/// Takes `prefix` off the front of a name that begins with it, and says whether it does.
bool take_prefix(std::string_view& name, std::string_view prefix);

/// The tensors of a draft head under one set of names, whoever wrote the file (official code,
/// SGLang, vLLM, SpecForge, AngelSlim, speculators): those of the official EAGLE-3 files without
/// the layer's prefix ("fc.weight", "q_proj.weight", "gate_proj.weight", "hidden_norm.weight",
/// ...). Borrows the checkpoint.
class HeadTensors {
 public:
  /// Throws Error for two tensors that mean the same.
  explicit HeadTensors(const Checkpoint& checkpoint);
  /// The tensors of another kind of head. Throws Error as above. name_of: the common name of a
  /// tensor, nothing for one without meaning.
  using Naming = std::optional<std::string> (*)(std::string_view name);
  HeadTensors(const Checkpoint& checkpoint, Naming name_of);

  /// The tensor, or nullptr. Marks it known.
  const StoredTensor* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// The tensor, or an Error naming it.
  const StoredTensor& require(std::string_view name) const;
  /// The tensor, of this shape (-1: any size), or an Error naming it.
  const StoredTensor& require(std::string_view name, const std::vector<std::int64_t>& shape) const;
  /// As find(), and of this shape if present.
  const StoredTensor* find(std::string_view name, const std::vector<std::int64_t>& shape) const;
  /// Throws Error naming a tensor that nobody asked for: a variant whose meaning is not known must
  /// not be guessed.
  void refuse_unknown() const;

  /// `load head "FOLDER"`: how messages begin.
  const std::string& doing() const { return doing_; }

 private:
  struct Entry {
    const StoredTensor* tensor;
    mutable bool known = false;
  };
  void add(std::string name, const StoredTensor& tensor);

  std::map<std::string, Entry, std::less<>> entries_;
  std::string doing_;
};

/// Whether the files hold an EAGLE draft head rather than a whole model.
bool is_draft_head(const Checkpoint& checkpoint);

}  // namespace talon
