#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/storage_type.h"

namespace talon {

/// A tensor as a torch pickle describes it: a strided window of a storage, which is another file of
/// the archive.
struct PickledTensor {
  std::string name;
  StorageType type = StorageType::f32;
  std::string_view storage_key;        // the storage lies in data/KEY; borrows from the pickle
  std::uint64_t storage_elements = 0;  // as the pickle claims
  std::uint64_t offset = 0;            // elements
  std::vector<std::int64_t> shape;     // 0 .. 2^63 - 1 each
  std::vector<std::int64_t> strides;   // elements, >= 0, as many as shape
};

/// Runs the pickle of a torch state dict (a dict or OrderedDict of tensors or Parameters), or of a
/// dict that holds one as "model", "module" or "state_dict" beside other things, and returns its
/// tensors in order. Nothing is imported or called: objects of other classes than those torch.save
/// (protocol 2) writes for such a dict are passed over where nothing is asked of them, else refused
/// by name, as are other opcodes. Takes at most a few hundred MB, whatever the pickle says. Throws
/// Error, beginning with `doing`.
std::vector<PickledTensor> read_state_dict(std::span<const std::byte> pickle,
                                           const std::string& doing);

}  // namespace talon
