#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "io/storage_type.h"

/// What a torch pickle is made of.
namespace talon::pickled {

// Values live in one arena and refer to each other by index, so that a small pickle that mentions a
// value many times stays small, and one that contains itself does no harm.
using Ref = std::uint32_t;

enum class Callable { ordered_dict, rebuild_tensor, rebuild_parameter };
struct StorageClass {
  StorageType type;
};
struct Storage {
  StorageType type;
  Ref key;
  std::uint64_t elements;
};
struct Tensor {
  Ref storage;
  std::uint64_t offset;
  std::vector<std::int64_t> shape, strides;
};
/// A class that is not known, or an object of one: never built, only passed over.
struct Foreign {
  std::string name;
};
struct None {};
struct Tuple {
  std::vector<Ref> items;
};
struct List {
  std::vector<Ref> items;
};
struct Dict {
  std::vector<std::pair<Ref, Ref>> items;
};
using Value = std::variant<None, bool, std::int64_t, double, std::string_view, Tuple, List, Dict,
                           Callable, StorageClass, Storage, Tensor, Foreign>;

/// For messages: "a list".
std::string kind_of(const Value& value);
/// The classes and functions that torch.save writes for a state dict.
std::optional<Value> find_global(std::string_view module, std::string_view name);

}  // namespace talon::pickled
