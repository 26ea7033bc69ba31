# Unity builds (preset `ci`): several sources become one file for the compiler, which then compiles
# what they share once. This makes a first build shorter, and a build after a change longer: the other
# presets compile each source by itself.
option(HETERPLAN_UNITY "Compile several sources as one" OFF)

# heterplan_unity(TARGET): names in unnamed namespaces must differ between the sources.
function(heterplan_unity target)
  if(NOT HETERPLAN_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  # Types in unnamed namespaces are of the file here, as they are where each source is by itself.
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endfunction()

# heterplan_includes_of(RESULT source...): the sources' lines that include headers, each once. Tables
# (.def) stay out: each inclusion of one is for the place where it stands.
function(heterplan_includes_of result)
  set(includes)
  foreach(source ${ARGN})
    cmake_path(GET source PARENT_PATH folder)
    file(STRINGS ${source} lines REGEX "^#include [<\"][^>\"]*[>\"]")
    foreach(line ${lines})
      string(REGEX REPLACE "^#include [<\"]([^>\"]*)[>\"].*" "\\1" header "${line}")
      if(header MATCHES "\\.def$")
        continue()
      elseif(line MATCHES "\"" AND EXISTS ${folder}/${header})
        list(APPEND includes "#include \"${folder}/${header}\"")
      else()
        string(REGEX REPLACE "[ ]*//.*" "" line "${line}")
        list(APPEND includes "${line}")
      endif()
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES includes)
  list(JOIN includes "\n" includes)
  set(${result} "${includes}\n" PARENT_SCOPE)
endfunction()

# heterplan_unity_of_tests(TARGET source...): each source becomes a namespace, so that tests may use
# the same names. The headers are read before: `#pragma once` keeps them out of the namespaces.
function(heterplan_unity_of_tests target)
  if(NOT HETERPLAN_UNITY)
    return()
  endif()
  heterplan_unity(${target})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN})
  heterplan_includes_of(includes ${ARGN})
  set(headers ${CMAKE_CURRENT_BINARY_DIR}/${target}Headers.h)
  file(CONFIGURE OUTPUT ${headers} CONTENT "#pragma once\n${includes}" @ONLY)
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD_UNIQUE_ID HETERPLAN_SOURCE
    UNITY_BUILD_CODE_BEFORE_INCLUDE "#include \"${headers}\"\nnamespace HETERPLAN_SOURCE {"
    UNITY_BUILD_CODE_AFTER_INCLUDE "}")
  foreach(source ${ARGN}) # those that add to a namespace of the libraries
    file(STRINGS ${source} opened REGEX "^namespace heterplan")
    if(opened)
      set_property(SOURCE ${source} PROPERTY SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endforeach()
endfunction()

# heterplan_unity_names(RESULT source): what the source declares at the beginnings of lines, by a
# pattern: names in unnamed namespaces, and some that need not differ.
function(heterplan_unity_names result source)
  set(names)
  file(STRINGS ${source} lines REGEX "^[A-Za-z]")
  foreach(line IN LISTS lines)
    if(line MATCHES "^(static )?constexpr [^=(]*[ *&]([A-Za-z_0-9]+)(\\[\\])? =")
      list(APPEND names ${CMAKE_MATCH_2})
    elseif(line MATCHES "^(struct|class|enum|enum class|using) ([A-Za-z_0-9]+) [={:]")
      list(APPEND names ${CMAKE_MATCH_2})
    elseif(line MATCHES "^[A-Za-z][^=(]*[ *&]([A-Za-z_0-9]+)\\(")
      list(APPEND names ${CMAKE_MATCH_1})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES names)
  set(${result} "${names}" PARENT_SCOPE)
endfunction()

# heterplan_unity_of_library(TARGET source...): each source joins the first group of fewer than eight
# of which none declares a name of it.
function(heterplan_unity_of_library target)
  if(NOT HETERPLAN_UNITY)
    return()
  endif()
  heterplan_unity(${target})
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARGN})
  set(groups 0)
  foreach(source ${ARGN})
    heterplan_unity_names(names ${source})
    set(chosen)
    foreach(group RANGE ${groups})
      set(repeated)
      foreach(name ${names})
        if(DEFINED declares_${group}_${name})
          set(repeated ON)
          break()
        endif()
      endforeach()
      if(NOT repeated AND NOT size_${group} GREATER_EQUAL 8)
        set(chosen ${group})
        break()
      endif()
    endforeach()
    foreach(name ${names})
      set(declares_${chosen}_${name} ON)
    endforeach()
    math(EXPR size_${chosen} "0${size_${chosen}} + 1")
    if(chosen EQUAL groups)
      math(EXPR groups "${groups} + 1")
    endif()
    set_property(SOURCE ${source} PROPERTY UNITY_GROUP ${target}_${chosen})
  endforeach()
endfunction()
