#pragma once

#include <array>
#include <cstdint>

namespace talon {

// The grids of ggml's smallest types, from the gguf package (MIT). Two bits a value: number
// 0, 1, 2 of the magnitudes {8, 25, 43}, of IQ1 of {-1, 0, 1}. Three bits a value: number 0 to 7 of
// the magnitudes of the type. Value j of an entry lies in its j-th lowest bits.
extern const std::array<std::uint16_t, 2048> kIq1Grid;
extern const std::array<std::uint16_t, 512> kIq2XsGrid;
extern const std::array<std::uint16_t, 1024> kIq2SGrid;
extern const std::array<std::uint16_t, 256> kIq3XxsGrid;
extern const std::array<std::uint16_t, 512> kIq3SGrid;

}  // namespace talon
