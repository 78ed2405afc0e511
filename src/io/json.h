#pragma once

#include <nlohmann/json.hpp>

namespace talon {
using Json = nlohmann::json;
}
