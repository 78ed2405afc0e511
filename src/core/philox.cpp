#include "core/philox.h"

namespace talon {

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53u;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57u;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

WordStream PositionRandom::words(std::uint64_t position, RandomUse use) const {
  return {{static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)},
          {static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(position >> 32),
           static_cast<std::uint32_t>(use) << 24, choice_}};
}

double PositionRandom::uniform(std::uint64_t position, RandomUse use, std::uint32_t draw) const {
  const auto block = words(position, use).block(draw & 0xFFFFFFu);
  const std::uint64_t bits = (static_cast<std::uint64_t>(block[0]) << 32) | block[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace talon
