#pragma once

#include <string>

#include "cli/terminal/console.h"
#include "image/picture.h"

namespace talon {

/// A picture in half blocks: each character shows two pixels, one above the other. One that is
/// larger than `most` is made smaller, a pixel the mean of those that it stands for. Ends every
/// line with the usual colours and a line feed.
std::string half_blocks(const Picture& picture, const TerminalSize& most);

}  // namespace talon
