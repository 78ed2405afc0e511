#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>

namespace talon {

/// Hands the bytes of one member of a zip, wheel or compressed tar archive to `sink`, piece by
/// piece. Throws Error when the archive cannot be read, is damaged, or has no such member. Returns
/// the number of bytes.
std::uint64_t unpack_member(const std::filesystem::path& archive, std::string_view member,
                            const std::function<void(std::span<const std::byte>)>& sink);

}  // namespace talon
