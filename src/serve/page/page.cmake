# The page at / is web/chat/dist/index.html (made by scripts/web_page.sh chat), kept in the library talon_serve as text. Included
# where that library is made: rules for generated files belong to a folder.
set(chat_dist ${PROJECT_SOURCE_DIR}/web/chat/dist)
set(chat_source ${PROJECT_BINARY_DIR}/chat_page.cpp)
add_custom_command(OUTPUT ${chat_source}
  COMMAND ${CMAKE_COMMAND} -DDIST=${chat_dist} -DSOURCE=${chat_source} -P ${CMAKE_CURRENT_LIST_DIR}/embed_page.cmake
  DEPENDS ${chat_dist}/index.html ${chat_dist}/policy.txt ${CMAKE_CURRENT_LIST_DIR}/embed_page.cmake VERBATIM)
target_sources(talon_serve PRIVATE ${chat_source})
set_source_files_properties(${chat_source} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
