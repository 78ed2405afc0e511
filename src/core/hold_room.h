#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace talon {

/// Makes room for `count` elements in all, so that adding them later throws nothing. Room at least
/// doubles where it grows.
template <typename Element>
void hold_room(std::vector<Element>& elements, std::size_t count) {
  if (count > elements.capacity()) elements.reserve(std::max(count, 2 * elements.capacity()));
}

}  // namespace talon
