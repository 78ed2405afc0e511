#include "io/formats/pickle_values.h"

#include <fmt/format.h>

#include "io/quote.h"

namespace talon::pickled {

std::string kind_of(const Value& value) {
  constexpr std::string_view kKinds[] = {"None",       "a boolean",       "an integer", "a float",
                                         "a text",     "a tuple",         "a list",     "a dict",
                                         "a function", "a storage class", "a storage",  "a tensor"};
  if (const auto* foreign = std::get_if<Foreign>(&value)) {
    return fmt::format("an object of {}, which is refused", quote(foreign->name));
  }
  return std::string(kKinds[value.index()]);
}

std::optional<Value> find_global(std::string_view module, std::string_view name) {
  if (module == "collections" && name == "OrderedDict") return Callable::ordered_dict;
  if (module == "torch._utils" && name == "_rebuild_tensor_v2") return Callable::rebuild_tensor;
  if (module == "torch._utils" && name == "_rebuild_parameter") return Callable::rebuild_parameter;
  if (module != "torch") return std::nullopt;
  if (name == "FloatStorage") return StorageClass{StorageType::f32};
  if (name == "HalfStorage") return StorageClass{StorageType::f16};
  if (name == "BFloat16Storage") return StorageClass{StorageType::bf16};
  if (name == "DoubleStorage") return StorageClass{StorageType::f64};
  if (name == "CharStorage") return StorageClass{StorageType::i8};
  if (name == "ByteStorage") return StorageClass{StorageType::u8};
  if (name == "ShortStorage") return StorageClass{StorageType::i16};
  if (name == "IntStorage") return StorageClass{StorageType::i32};
  if (name == "LongStorage") return StorageClass{StorageType::i64};
  if (name == "BoolStorage") return StorageClass{StorageType::boolean};
  return std::nullopt;
}

}  // namespace talon::pickled
