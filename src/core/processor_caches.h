#pragma once

#include <cstddef>

namespace talon {

/// Bytes of the data cache of a level as the first processor sees it, 0 where nobody says. The
/// system's own table is asked first: the C library's count for some processors is of caches that a
/// virtual machine does not get.
std::size_t cache_bytes(int level);

}  // namespace talon
