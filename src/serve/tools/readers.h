#pragma once

#include <memory>
#include <string>
#include <vector>

#include "serve/tools/answer_part.h"
#include "serve/tools/answer_style.h"

namespace talon {

/// schemas: of the tools that are offered.
std::unique_ptr<AnswerReader> make_hermes_reader(ToolSchemas schemas);
/// tools: names of those that are offered.
std::unique_ptr<AnswerReader> make_llama3_reader(std::vector<std::string> tools);
std::unique_ptr<AnswerReader> make_mistral_reader();
/// These read the list of calls that Mistral's models write, behind other marks.
std::unique_ptr<AnswerReader> make_granite_reader();
std::unique_ptr<AnswerReader> make_cohere_reader();
std::unique_ptr<AnswerReader> make_nemotron_reader();
std::unique_ptr<AnswerReader> make_tool_calls_reader();
std::unique_ptr<AnswerReader> make_apertus_reader();
/// continues: the text begins in the body of a message, else in the head of one.
std::unique_ptr<AnswerReader> make_harmony_reader(bool continues);
std::unique_ptr<AnswerReader> make_functiongemma_reader();
std::unique_ptr<AnswerReader> make_gemma4_reader();
std::unique_ptr<AnswerReader> make_deepseek_reader();
std::unique_ptr<AnswerReader> make_kimi_reader();
std::unique_ptr<AnswerReader> make_olmo_reader();
std::unique_ptr<AnswerReader> make_lfm2_reader();
/// schemas: of the tools that are offered.
std::unique_ptr<AnswerReader> make_seed_reader(ToolSchemas schemas);
std::unique_ptr<AnswerReader> make_minimax_reader(ToolSchemas schemas);
std::unique_ptr<AnswerReader> make_hunyuan_reader(ToolSchemas schemas);
std::unique_ptr<AnswerReader> make_open_hunyuan_reader(ToolSchemas schemas);

}  // namespace talon
