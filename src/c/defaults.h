#pragma once

#include "talon.h"

namespace talon {

// What the makers of talon.h fill in.
talon_model_options default_model_options();
talon_text_options default_text_options();
talon_request default_request();
talon_engine_options default_engine_options();
talon_speculator_options default_speculator_options();

}  // namespace talon
