#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace talon {

std::string to_base64(std::span<const std::byte> bytes);
/// None for what is not base64 with its padding.
std::optional<std::vector<std::byte>> from_base64(std::string_view text);

}  // namespace talon
