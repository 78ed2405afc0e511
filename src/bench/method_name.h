#pragma once

#include <string>
#include <string_view>

namespace talon {

/// The method that plain decoding is called among methods.
inline constexpr const char* kPlain = "none";

/// The name that a method goes by whatever the model: its heads and codebooks are left out, of
/// paths of models the last part stays. "eagle3:head=a/b,topk=1+suffix" is "eagle3:topk=1+suffix".
std::string short_method_name(std::string_view method);

}  // namespace talon
